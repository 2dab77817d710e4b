pytest_plugins = ["tests.plugins.requirements", "pytester"]
