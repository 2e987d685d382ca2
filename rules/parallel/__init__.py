"""AMP6xx: DataParallel and Lightning."""
