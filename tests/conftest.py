pytest_plugins = ["tests.plugins.requirements", "tests.plugins.matrix", "pytester"]
