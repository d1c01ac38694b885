"""What schemathesis loads: bodies name the run, the runner and the lease that there are, as paths and queries do."""

import itertools
import json
import os

import schemathesis

IDS = json.loads(os.environ["AUND_TEST_IDS"])
counted = itertools.count()


@schemathesis.hook
def before_call(context, case, kwargs):
    # Every fourth body stays as it was generated.
    if not isinstance(case.body, dict) or next(counted) % 4 == 3:
        return
    for name, value in IDS.items():
        # What is of another type is so on purpose.
        if type(case.body.get(name)) is type(value):
            case.body[name] = value
