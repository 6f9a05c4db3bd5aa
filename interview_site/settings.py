"""All settings of the site. Values come from ``env``; there is no second settings file."""

from __future__ import annotations

import os
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import dj_database_url
from django.utils.log import CallbackFilter

from interview_site import env, logs, secret_key
from interview_site.sqlite_turns import TurnConnection

BASE_DIR = env.BASE_DIR

EVERY_ADDRESS = {"0.0.0.0", "::"}  # noqa: S104 - compared with, never bound to by default
# Who can reach us. Everything that names this host follows from these two.
BIND = env.address("BIND", "127.0.0.1")
PUBLIC_HOST = env.host("PUBLIC_HOST", BIND if BIND not in EVERY_ADDRESS else "127.0.0.1")
PUBLIC_HOST_MISSING = BIND in EVERY_ADDRESS and not env.text("PUBLIC_HOST")
PORT = env.number("PORT", 8000, low=1, high=65535)
PUBLIC_PORT = env.number("PUBLIC_PORT", PORT, low=1, high=65535)
PUBLIC_SCHEME = "https" if env.flag("PUBLIC_HTTPS") else "http"
_url_host = f"[{PUBLIC_HOST}]" if ":" in PUBLIC_HOST else PUBLIC_HOST
_default_port = {"http": 80, "https": 443}[PUBLIC_SCHEME]
PUBLIC_URL = f"{PUBLIC_SCHEME}://{_url_host}" + (f":{PUBLIC_PORT}" if _default_port != PUBLIC_PORT else "")
# Peers whose X-Forwarded-For and X-Forwarded-Proto are believed; nobody's else, not even from this machine.
TRUSTED_PROXIES = env.networks("TRUSTED_PROXIES")

DATA_DIR = env.folder("DATA_DIR", BASE_DIR / "data")


def _run_dir() -> Path:
    """Return a folder for sockets: inside DATA_DIR where its path is short enough for a socket's name."""
    inside = DATA_DIR / "run"
    if len(os.fsencode(inside)) < 80:
        return inside
    return Path(tempfile.gettempdir()) / f"faultline-{sha256(str(DATA_DIR).encode()).hexdigest()[:12]}"


RUN_DIR = env.folder("RUN_DIR", _run_dir())
DEBUG = env.flag("DEBUG")
WORKERS = env.number("WORKERS", 10, low=1, high=32)  # lanes of the worker process, at most


SECRET_KEY = env.secret("SECRET_KEY") or secret_key.kept_in(DATA_DIR)
# Those who sit at the machine itself may say localhost; links never do.
_LOCAL_NAMES = {"localhost"} if PUBLIC_HOST == "127.0.0.1" else set()
ALLOWED_HOSTS = sorted(
    f"[{name}]" if ":" in name else name for name in ({PUBLIC_HOST, BIND} | _LOCAL_NAMES) - EVERY_ADDRESS
)
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]
# Pages that may open a WebSocket, as browsers write an origin.
_direct = {f"http://{name}" + (f":{PORT}" if PORT != 80 else "") for name in ALLOWED_HOSTS}
ORIGINS = sorted({PUBLIC_URL} | (_direct if PUBLIC_SCHEME == "http" else set()))

INSTALLED_APPS = [
    "interview_site.apps.SiteConfig",
    "sessions.apps.SessionsConfig",
    "faults.apps.FaultsConfig",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.forms",
    "django_htmx",
    "template_partials",
    "django_rq",
    "channels",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "interview_site.middleware.CompressedStatic",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "interview_site.middleware.ContentSecurityPolicy",
    "interview_site.middleware.PlainPages",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "interview_site.write_limits.WriteLimit",
    "interview_site.cluster_outages.ClusterOutages",
    "interview_site.database_outages.DatabaseOutages",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "interview_site.middleware.WrongMethodPage",
]

ROOT_URLCONF = "interview_site.guide_urls" if env.text("GUIDE_CLUSTER") else "interview_site.urls"
ASGI_APPLICATION = "interview_site.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "sessions.context_processors.disk_warning",
                "sessions.context_processors.stops",
            ],
        },
    },
]

# SQLite as the design measured it: WAL, a lock taken at BEGIN, patience, and every commit on the disk.
_SQLITE_OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "factory": TurnConnection,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;",
}
_DATABASE_URL = env.url("DATABASE_URL", "sqlite:///db", ("postgres", "postgresql", "sqlite"))
# Under ASGI every request has a thread of its own, and a connection kept beyond the request is never used again.
_database: dict[str, Any] = {**dj_database_url.parse(_DATABASE_URL, conn_max_age=0, conn_health_checks=True)}
if not env.text("DATABASE_URL"):
    _database["NAME"] = str(DATA_DIR / "db.sqlite3")  # a path need not survive being a URL
if _database["ENGINE"] == "django.db.backends.sqlite3":
    _database["OPTIONS"] = _SQLITE_OPTIONS
    # Tests on a file too: the locks of SQLite's shared memory cache are ones that nobody waits for.
    _database["TEST"] = {"NAME": str(DATA_DIR / "test.sqlite3")}
else:
    _database["OPTIONS"] = {"connect_timeout": 5, **_database.get("OPTIONS", {})}
DATABASES = {"default": _database}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# Without REDIS_URL the supervisor starts a private Redis on this socket.
OWN_REDIS = not env.text("REDIS_URL")
_own_redis = f"unix://{quote(str(RUN_DIR / 'redis.sock'))}?db=0"
REDIS_URL = env.url("REDIS_URL", _own_redis, ("redis", "rediss", "unix"))
_QUEUE = {"URL": REDIS_URL, "SERIALIZER": "rq.serializers.JSONSerializer", "DEFAULT_TIMEOUT": 300}
RQ = {"WORKER_CLASS": "interview_site.worker.Worker"}
RQ_QUEUES = {"default": _QUEUE, "faults": _QUEUE}

# Practice clusters: the control API of `kubesim host`, its certificate authority and its token.
KUBESIM_PORT = env.number("KUBESIM_PORT", 8443, low=1, high=65535)
OWN_KUBESIM = not env.text("KUBESIM_URL")
KUBESIM_DIR = DATA_DIR / "kubesim"
KUBESIM_URL = env.url("KUBESIM_URL", f"https://{_url_host}:{KUBESIM_PORT}", ("https",))
KUBESIM_CA_FILE = KUBESIM_DIR / "ca.crt"
KUBESIM_TOKEN_FILE = KUBESIM_DIR / "control-token"

# Set by `manage.py guide` alone: the practice cluster on which its fault injection API acts, for who sits at this
# machine and without a token. Such an installation has no interviews: it answers none of the site's addresses.
GUIDE_CLUSTER = env.text("GUIDE_CLUSTER")
GUIDE_FOLDER = "faultline-guide-"
if GUIDE_CLUSTER and not (DATA_DIR.name.startswith(GUIDE_FOLDER) and BIND == PUBLIC_HOST == "127.0.0.1"):
    raise env.BadEnvironment(
        "GUIDE_CLUSTER is for `manage.py guide`, which sets it by itself. Run: unset GUIDE_CLUSTER"
    )

# The image of candidates' toolboxes on real clusters (deploy/toolbox.Dockerfile); practice clusters know theirs.
TOOLBOX_IMAGE = env.image("TOOLBOX_IMAGE")
NODE_AGENT_IMAGE = env.image("NODE_AGENT_IMAGE")
INFERENCE_SERVER_IMAGE = env.image("INFERENCE_SERVER_IMAGE")

PASSWORD_HASHERS = ["django.contrib.auth.hashers.ScryptPasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "session-list"
LOGOUT_REDIRECT_URL = "login"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PUBLIC_SCHEME == "https"
SESSION_COOKIE_AGE = 16 * 3600  # a working day; a candidate's cookie has a time of its own
SECURE_REFERRER_POLICY = "same-origin"
SECURE_SSL_REDIRECT = PUBLIC_SCHEME == "https"  # only a trusted proxy can say that a request came without TLS
SECURE_REDIRECT_EXEMPT = ["^healthz$", "^readyz$"]
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if PUBLIC_SCHEME == "https" else 0
# As large as any body that is let in (interview_site.request_limits), so that none is written to the disk:
# a scenario pack of 64 files of 64 KiB, and what an archive adds.
FILE_UPLOAD_MAX_MEMORY_SIZE = 6 * 1024 * 1024
X_FRAME_OPTIONS = "DENY"

LANGUAGE_CODE = "en"
TIME_ZONE = env.time_zone("TIME_ZONE", "UTC")
USE_TZ = True
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True  # no collectstatic step: the files are served from where they lie
WHITENOISE_AUTOREFRESH = DEBUG
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"()": "interview_site.masking.MaskingFormatter", "format": "%(levelname)s %(name)s: %(message)s"}
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["brief"]}},
    "filters": {
        "no_probe": {"()": CallbackFilter, "callback": logs.no_probe},
        "no_refusal": {"()": CallbackFilter, "callback": logs.no_refusal},
        "no_scanner": {"()": CallbackFilter, "callback": logs.no_scanner},
        "brief": {"()": CallbackFilter, "callback": logs.brief},
    },
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        **{name: {"level": "INFO"} for name in ("faults", "sessions", "interview_site")},
        # Django's and uvicorn's own handlers know no mask: their loggers hand everything to the root's.
        "django": {"handlers": [], "level": "INFO"},
        "django.server": {"handlers": [], "propagate": True},
        "django.request": {"filters": ["no_probe", "no_refusal"]},
        "uvicorn": {"handlers": [], "propagate": True},
        "uvicorn.error": {"handlers": [], "propagate": True, "filters": ["no_scanner"]},
        "uvicorn.access": {"handlers": [], "propagate": False},
        "django.security.DisallowedHost": {"level": "CRITICAL"},  # scanners; they are answered with 400
        "urllib3": {"level": "ERROR"},  # its retries during an outage are told once, by our own loops
    },
}
