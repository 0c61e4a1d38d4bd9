"""Install the nginx includes into a configuration that exists, remove them, and list the lines for the apps behind it."""
