"""The ASGI entry point of guide mode: the fault injection API alone, without WebSockets."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "interview_site.settings")
application = get_asgi_application()
