"""AMP3xx: what stands inside and outside of autocast regions."""
