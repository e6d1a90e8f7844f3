"""The command line: ``notebook-prof analyze | summary | report | convert | formats``."""
