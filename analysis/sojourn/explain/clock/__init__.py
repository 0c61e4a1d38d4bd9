"""How the apps' clocks stand to nginx's, from the log alone: ``offsets`` is where it begins."""
