"""The libraries of the clouds: a web process loads none of them, and a provider that needs one says which extra has it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from completions.providers.access import keeper

ROOT = Path(__file__).resolve().parents[4]
PREAMBLE = "import sys, gateway_project.wsgi\n"
_WEB_PROCESS = """
from completions import providers
from completions.catalog import file
for provider in file.read([file.BUILT_IN]).providers.values():
    if provider.kind != "echo":
        table = provider.columns
        providers.ADAPTERS[provider.kind].target("p", table["base_url"], "k", table["access"], "m")
print(*sys.modules)
"""
_MISSING = """
from completions.providers.access import keeper
sys.modules["{library}"] = None
try:
    keeper.keep("cloud", {{"type": "{kind}", "region": "r", "service": "s"}}, "").proof()
except keeper.CredentialUnavailable as error:
    print(error)
"""


def run(program):
    done = subprocess.run([sys.executable, "-c", PREAMBLE + program], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.system
def test_a_web_process_with_the_built_in_catalog_loads_no_library_of_a_cloud():
    loaded = run(_WEB_PROCESS).split()
    assert "completions.providers.access.keeper" in loaded
    assert [name for name in loaded if re.match(r"(?:google\.auth|boto|azure|msal)\b", name)] == []


@pytest.mark.parametrize("file", ["requirements.txt", "deploy/requirements.txt"])
def test_what_make_run_installs_has_no_library_of_a_cloud(file):
    installed = re.findall(r"^([a-z0-9-]+)==", (ROOT / file).read_text(), re.MULTILINE)
    assert "django" in installed
    assert {"google-auth", "botocore", "azure-identity", "azure-core", "msal"} & {*installed} == set()


@pytest.mark.system
@pytest.mark.parametrize(("kind", "library"), keeper.SOURCES.items())
def test_a_provider_without_its_library_names_the_extra_that_has_it(kind, library):
    said = run(_MISSING.format(kind=kind, library=library))
    extra = f"pip install 'model-gateway[{kind}]'"
    assert said == f"auth of the type {kind} needs {library.replace('.', '-')}: {extra}\n"
