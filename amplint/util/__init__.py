"""Tools that know nothing of torch, nor of rules."""
