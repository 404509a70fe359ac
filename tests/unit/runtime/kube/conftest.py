"""A certificate for the tests of access to the API."""

import subprocess

import pytest


@pytest.fixture(scope="package")
def authority() -> str:
    """A PEM certificate and its key."""
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /dev/stdout -subj /CN=test"
    made = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip("no openssl to make a certificate with")
    return made.stdout
