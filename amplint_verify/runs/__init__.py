"""Programs run in processes of their own."""
