"""Parse nginx configuration: syntax, includes, log formats, and directives that delay requests."""
