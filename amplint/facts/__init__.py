"""The frame of facts about a linked project, and the answers that claim nothing about training."""
