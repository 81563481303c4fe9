"""Says when jobs should have fired, without any code of the product.

Reads JSON from standard input: {"until": µs, "jobs": [{"id", "created_at": µs, "calendars": {name: definition}, "versions": [{"version", "changed_at": µs,
"settings"}]}]}, instants as whole microseconds since 1970. Writes one line for each fire time up to `until`, and one for the first after it: the job, the
microseconds, the version that was in effect, and 1 if a calendar of that version excludes it, 0 if not.

A version is in effect after the instant of its change, up to and including that of the next; the first from the creation of the job on. While a job is
disabled it has no fire times; a pause holds them and they remain fire times, and so does a calendar. Cron expressions are read by cronsim, intervals are counted here. A one-off has one,
and those before the start of a job's time or not before the end of it are none. What is not understood
ends the program: a fire time that is left out would pass for one that nobody owed.
"""

import json
import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from cronsim import CronSim

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)
SECONDS = {"weeks": 604800, "days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
UNKNOWN = ("max_runs", "dst_gap", "dst_overlap")


def micros(at):
    return (at - EPOCH) // MICROSECOND


def instant(text):
    return micros(datetime.fromisoformat(text.replace("Z", "+00:00")))


def interval(config, created_at, after):
    anchor = created_at
    if "anchor" in config:
        anchor = instant(config["anchor"])
    parts = {key: value for key, value in config.items() if key != "anchor"}
    if not parts.keys() <= SECONDS.keys() or not parts.keys() & {"hours", "minutes", "seconds"}:
        raise ValueError(f"an interval that is not understood: {config}")
    period = sum(SECONDS[key] * value for key, value in parts.items()) * 1_000_000
    at = anchor + ((after - anchor) // period + 1) * period
    while True:
        yield at
        at += period


def cron(config, zone, after):
    if not config.keys() <= {"expression", "seconds", "day_match"}:
        raise ValueError(f"a crontab schedule that is not understood: {config}")
    fields = len(config["expression"].split())
    if fields != (6 if config.get("seconds") else 5):
        raise ValueError(f"{fields} fields: {config}")
    # The last whole second that has passed: a fire at `after` itself is not after it.
    begin = (EPOCH + timedelta(microseconds=after)).replace(microsecond=0).astimezone(ZoneInfo(zone))
    fires = CronSim(config["expression"], begin)
    if "day_match" in config:
        # The oracle would count every day as a match of `*`.
        if "*" in fires.parts[3::2]:
            raise ValueError(f"a day match beside `*` is not understood: {config}")
        fires.day_and = {"both": True, "either": False}[config["day_match"]]
    for fire in fires:
        at = micros(fire)
        if at > after:
            yield at


def fires(settings, created_at, after):
    """All fire times after `after`, without end."""
    for setting in UNKNOWN:
        if settings.get(setting):
            raise ValueError(f"{setting} is not understood: {settings}")
    kind, config = settings["job_type"], settings["schedule_config"]
    if kind == "manual" or not settings["is_enabled"]:
        return iter(())
    return bounded(settings, unbounded(kind, config, settings, created_at, after))


def unbounded(kind, config, settings, created_at, after):
    if kind == "interval":
        return interval(config, created_at, after)
    if kind == "cron":
        return cron(config, settings.get("timezone") or "UTC", after)
    if kind == "oneoff" and config.keys() == {"run_at"}:
        return (at for at in [instant(config["run_at"])] if at > after)
    raise ValueError(f"a kind of schedule that is not understood: {kind}, {config}")


def bounded(settings, fires):
    """Those from `start_at` on and before `end_at`."""
    start, end = (settings.get(bound) and instant(settings[bound]) for bound in ("start_at", "end_at"))
    for at in fires:
        if end and at >= end:
            return
        if not start or at >= start:
            yield at


def windows(definition):
    """What a calendar excludes, as pairs of microseconds, the second of which is not excluded any more."""
    if not definition.keys() <= {"windows", "timezone"} or definition.get("timezone") != "UTC":
        raise ValueError(f"a calendar that is not understood: {definition}")
    for window in definition["windows"]:
        if window.keys() != {"from", "until"}:
            raise ValueError(f"a window that is not understood: {window}")
        yield tuple(micros(datetime.fromisoformat(window[end]).replace(tzinfo=timezone.utc)) for end in ("from", "until"))


def excluded(settings, calendars):
    """The windows that a version excludes."""
    names = settings.get("calendars") or []
    if names and settings.get("calendar_roll", "skip") != "skip":
        raise ValueError(f"a roll that is not understood: {settings}")
    return [window for name in names for window in windows(calendars[name])]


def main():
    run = json.load(sys.stdin)
    for job in run["jobs"]:
        versions = sorted(job["versions"], key=lambda version: version["version"])
        if not versions or versions[0]["version"] != 1:
            raise ValueError(f"the history of {job['id']} does not begin at its first version")
        ends = [version["changed_at"] for version in versions[1:]] + [run["until"]]
        for version, end in zip(versions, ends):
            after = job["created_at"] if version["version"] == 1 else version["changed_at"]
            breaks = excluded(version["settings"], job["calendars"])
            for at in fires(version["settings"], job["created_at"], after):
                is_next = at > min(end, run["until"])
                # The first that is to come is what the cursor names.
                if not is_next or version is versions[-1]:
                    print(job["id"], at, version["version"], int(any(begin <= at < finish for begin, finish in breaks)))
                if is_next:
                    break


if __name__ == "__main__":
    main()
