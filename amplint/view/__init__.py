"""Views: single nodes of the value graph, with all that is known of them, as rules judge them."""
