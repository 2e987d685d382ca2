"""Questions about a project as a whole: its definitions, names and classes, its texts and uses."""
