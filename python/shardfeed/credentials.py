"""Credentials for stores that a function of the program gives."""

from __future__ import annotations

import datetime
import math
from typing import Any, Callable, Mapping, Optional, Tuple, Union

from . import _core
from .arguments import checked

_KEYS = ("access_key_id", "secret_access_key", "session_token", "token")
_MAX_REASON = 500

_Given = Tuple[str, str, str, str, Optional[int]]


@checked
def set_credentials(url: str, function: Optional[Callable[[], Mapping[str, Any]]]) -> None:
    """Takes the credentials for a bucket from a function instead of the environment.

    `url` names the bucket or container, "s3://bucket", "gs://bucket" or "az://container", or all of a scheme without a function of
    their own: "s3://", "abfss://". `function` is called without arguments and returns a dict of

        access_key_id, secret_access_key    a key, which signs requests; of Google's: an HMAC key
        session_token                       of a key of S3's that has one
        token                               or a token of OAuth: for Google Cloud Storage, and for
                                            Azure, which takes no keys here
        expires                             a datetime with a time zone, or seconds since the epoch;
                                            missing or None: they stay valid

    It is called when the bucket is first used, and again, by a thread in the background, five
    minutes before the credentials expire and where the store refuses them as expired. If it raises
    or returns something wrong, whatever uses the bucket raises an OSError or a ValueError that names
    it; while credentials are being renewed, only once the store refuses the old ones. KeyboardInterrupt
    and SystemExit are raised as they are. It must not
    wait for a thread that reads or writes the bucket.

    This applies to datasets and writers that are opened from now on, in this process and its forks.
    Processes that are started in other ways ("spawn", and the program behind convert, verify, index
    and inspect) must call it again or use the credentials of the environment: functions are not
    part of states and pickles. None restores the credentials of the environment.

        session = boto3.Session()
        def from_boto():
            found = session.get_credentials().get_frozen_credentials()
            return {"access_key_id": found.access_key, "secret_access_key": found.secret_key,
                    "session_token": found.token, "expires": time.time() + 900}
        sf.set_credentials("s3://bucket", from_boto)

    ValueError: `url` is none of these."""
    if function is not None and not callable(function):
        raise TypeError(f"set_credentials: function must be callable or None, not "
                        f"{type(function).__name__}")
    if function is None:
        _core.set_credentials(url, None, "")
        return
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None)
    source = f"the function {module}.{name}" if module else f"the function {name}"

    def call() -> Union[_Given, str]:
        try:
            given = function()
        except Exception as e:
            try:
                text = str(e)
            except Exception:
                text = ""
            return f"raised {type(e).__name__}" + (f": {text[:_MAX_REASON]}" if text else "")
        return _taken(given)

    _core.set_credentials(url, call, source)


def _taken(given: Any) -> Union[_Given, str]:
    """Returns what the extension takes, or says what is wrong without showing a value."""
    if not isinstance(given, Mapping):
        return f"must return a dict with a token or an access_key_id, not {type(given).__name__}"
    unknown = [str(key) for key in given if key not in _KEYS and key != "expires"]
    if unknown:
        return f"returned the unknown keys {', '.join(unknown)}; known are {', '.join(_KEYS)}, expires"
    values = []
    for key in _KEYS:
        value = given.get(key)
        if value is not None and not isinstance(value, str):
            return f"returned a {key} that is not a str but {type(value).__name__}"
        # Other characters cannot be in credentials, and the extension refuses blanks.
        values.append(value if value and value.isascii() else " " if value else "")
    expires = given.get("expires")
    if isinstance(expires, datetime.datetime):
        if expires.tzinfo is None:
            return "returned a datetime without a time zone as expires; give it tzinfo=timezone.utc"
        expires = expires.timestamp()
    elif expires is not None and (isinstance(expires, bool) or not isinstance(expires, (int, float))):
        return f"returned {type(expires).__name__} as expires, not a datetime or seconds since the epoch"
    if expires is not None and not (math.isfinite(expires) and abs(expires) < 1 << 53):
        return "returned an expires that is not a time; expected seconds since the epoch"
    access_key_id, secret_access_key, session_token, token = values
    return (access_key_id, secret_access_key, session_token, token,
            None if expires is None else int(expires))

