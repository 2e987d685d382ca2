"""AMP1xx: the host waits for the device."""
