"""Parse nginx configuration: syntax, includes, log_format."""
