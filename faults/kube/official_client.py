"""The official client's configuration and TLS, of which ``Kube`` uses the connection pool."""

from __future__ import annotations

import os
import ssl
import tempfile
from typing import TYPE_CHECKING

import urllib3

from faults.kube.checked_connections import checked_pools
from faults.kube.config import Access

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

# Nothing is repeated by urllib3: ``Kube`` decides. Redirects would carry the token elsewhere.
NO_RETRIES = urllib3.Retry(total=0, redirect=False, raise_on_status=False)


def api_client(access: Access) -> ApiClient:
    """Return an official client that reads no file and no environment, and follows no redirect.

    The package is read here, since many commands speak to no cluster: that takes a quarter of their start.
    """
    from kubernetes.client import ApiClient, Configuration

    configuration = Configuration(
        host=access.server,
        ca_cert_data=access.ca_pem,
        tls_server_name=access.tls_server_name or None,
        retries=NO_RETRIES,
        connection_pool_maxsize=16,
        proxy="",
        no_proxy="*",
    )
    configuration.keep_alive = True
    client = ApiClient(configuration)
    manager = client.rest_client.pool_manager
    if access.client_certificate_pem:
        manager.connection_pool_kw["ssl_context"] = client_context(access)
    if access.refusal is not None:
        manager.pool_classes_by_scheme = {"https": checked_pools(access.refusal)["https"]}
    return client


def client_context(access: Access) -> ssl.SSLContext:
    """Return a TLS context, with a client certificate if there is one; ``ssl`` can load it from a file only."""
    context = ssl.create_default_context(cadata=access.ca_pem or None)
    if not access.client_certificate_pem:
        return context
    handle, path = tempfile.mkstemp()  # created with mode 0600
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(access.client_certificate_pem + "\n" + access.client_key_pem)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)
    return context
