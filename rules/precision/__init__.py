"""AMP2xx: dtypes that raise, widen or lose precision."""
