"""Install the nginx includes into an existing configuration, remove them, and show the lines for the apps."""
