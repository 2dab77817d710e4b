pytest_plugins = [
    "tests.plugins.requirements",
    "tests.plugins.matrix",
    "tests.plugins.clients",
    "pytester",
]
