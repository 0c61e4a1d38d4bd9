"""Charts of the analyses, one file each. A chart takes what an analysis returned and holds binned data only."""
