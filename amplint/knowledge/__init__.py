"""Facts about torch and other libraries, as data with sources."""
