"""Lists jobs with the generated client, and compares them with the plain answer of the API."""

import importlib
import json
import os
import pkgutil
import sys
import urllib.request

import sched_client
from sched_client import AuthenticatedClient
from sched_client.api.jobs import get_jobs
from sched_client.models.include import Include
from sched_client.models.job_status import JobStatus

METHODS = {"get", "put", "post", "patch", "delete"}


def modules():
    """Imports every module of the client, and returns the number of its operations."""
    operations = 0
    for found in pkgutil.walk_packages(sched_client.__path__, "sched_client."):
        module = importlib.import_module(found.name)
        operations += hasattr(module, "sync_detailed")
    return operations


def described():
    """Returns the number of operations of the document."""
    with open(os.environ["SCHED_DOCUMENT"], encoding="utf-8") as file:
        paths = json.load(file)["paths"]
    return sum(len(METHODS & methods.keys()) for methods in paths.values())


def plain(api, key):
    """Lists the jobs without the client."""
    request = urllib.request.Request(f"{api}/api/v1/jobs?include=system&limit=200")
    request.add_header("Authorization", f"Bearer {key}")
    with urllib.request.urlopen(request) as answer:
        return [(job["name"], job["job_type"]) for job in json.load(answer)["items"]]


def main():
    api, key = os.environ["SCHED_API"], os.environ["SCHED_KEY"]
    if modules() != described():
        sys.exit(f"error: the client has {modules()} operations, and the document {described()}")
    client = AuthenticatedClient(base_url=api, token=key, raise_on_unexpected_status=True)
    found, cursor = [], None
    while True:
        more = {"cursor": cursor} if cursor else {}
        page = get_jobs.sync(client=client, limit=3, include=Include.SYSTEM, **more)
        found += [(job.name, job.job_type.value) for job in page.items]
        cursor = page.next_cursor
        if not cursor:
            break
    expected = plain(api, key)
    if len(expected) < 4 or found != expected:
        sys.exit(f"error: the client lists {found}, and the API {expected}")
    enabled = get_jobs.sync(client=client, status=JobStatus.ENABLED)
    if any(job.status != JobStatus.ENABLED for job in enabled.items):
        sys.exit("error: the filter of the client has no effect")
    print(f"listed {len(found)} jobs in Python")


main()
