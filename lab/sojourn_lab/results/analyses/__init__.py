"""What a scenario wants to know about a case beside its split; one file each, asked for by `analyses = ["…"]`."""
