import pytest

ABSENT = "no-such-program"
TESTS = {
    "server": f"@pytest.mark.server('{ABSENT}')",
    "client": f"@pytest.mark.client('{ABSENT}')",
    "module": "@pytest.mark.client('no_such_module')",
}


@pytest.fixture
def run(run_with, pytester, monkeypatch):
    """Runs one test that bears a marker, as a run of its own, and gives its result."""
    monkeypatch.delenv("CI", raising=False)
    pytester.makeini("[pytest]\nmarkers =\n  server\n  client\n  root\n  image\n  browser\n")

    def run(marker, *arguments):
        text = f"import pytest\n\n{marker}\ndef test_it(): pass\n"
        return run_with("requirements", text, *arguments)

    return run


@pytest.mark.parametrize("marker", TESTS.values(), ids=TESTS)
def test_what_is_missing_skips_loudly(run, marker):
    result = run(marker)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(
        ["*skipped: this machine lacks*", "*no?such?*: 1 test not run. To run: *"]
    )


def test_what_is_there_runs(run):
    result = run("@pytest.mark.server('sh')\n@pytest.mark.client('json', 'sh')")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*machine lacks*")


def test_each_missing_thing_is_named(run):
    result = run(f"@pytest.mark.server('sh', '{ABSENT}')\n@pytest.mark.client('no_such_module')")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["client:no_such_module: 1 test*", f"server:{ABSENT}: 1 test*"])


def test_the_summary_reaches_over_workers(run):
    result = run(TESTS["server"], "-p", "xdist", "-n", "2")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"server:{ABSENT}: 1 test not run*"])


def test_in_ci_what_is_missing_fails(run, monkeypatch):
    monkeypatch.setenv("CI", "true")
    result = run(TESTS["server"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [f"*missing, and not in tests/allowed_missing.txt: server:{ABSENT}*"]
    )


def test_in_ci_what_is_allowed_to_be_missing_skips_with_its_reason(run, pytester, monkeypatch):
    monkeypatch.setenv("CI", "true")
    pytester.mkdir("tests")
    allowed = f"# comment\n\nserver:{ABSENT}  nobody packages it\n"
    pytester.path.joinpath("tests/allowed_missing.txt").write_text(allowed)
    result = run(TESTS["server"], "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"*missing server:{ABSENT} (nobody packages it)*"])


def test_an_allowance_without_a_reason_stops_the_run(run, pytester, monkeypatch):
    monkeypatch.setenv("CI", "true")
    pytester.mkdir("tests")
    pytester.path.joinpath("tests/allowed_missing.txt").write_text(f"server:{ABSENT}\n")
    result = run(TESTS["server"])
    assert result.ret != pytest.ExitCode.OK


def test_a_marker_without_a_name_stops_the_run(run):
    assert run("@pytest.mark.server").ret != pytest.ExitCode.OK


def test_root_is_asked_for(run, pytester, monkeypatch):
    pytester.makeconftest("import os\nos.geteuid = lambda: 1000\n")
    result = run("@pytest.mark.root")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["root:root: 1 test not run. To run: run the tests as root"])


@pytest.mark.parametrize("kind", ["image", "browser"])
def test_engines_and_browsers_are_looked_for_by_program(run, pytester, monkeypatch, kind):
    names = "IMAGE_ENGINES = plugin.BROWSERS"
    pytester.makeconftest(f"import tests.plugins.requirements as plugin\nplugin.{names} = ()\n")
    result = run(f"@pytest.mark.{kind}")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"{kind}:{kind}: 1 test not run. To run: *"])
