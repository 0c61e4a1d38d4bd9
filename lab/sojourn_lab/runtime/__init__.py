"""nginx, the app servers and their tiers, started on this machine or in containers and always taken down."""
