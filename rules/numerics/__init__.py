"""AMP8xx: numbers that half precision cannot hold."""
