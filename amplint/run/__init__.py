"""One run over a project: what is analysed, judged, filtered and kept."""
