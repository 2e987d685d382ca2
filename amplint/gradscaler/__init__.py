"""The protocol of a GradScaler, and the paths of a training step that break it."""
