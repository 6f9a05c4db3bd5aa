"""How others check the tokens of a cluster: the discovery document of OpenID Connect, and the public keys."""

from __future__ import annotations

from aiohttp import web

from kubesim.api.answers import json_response
from kubesim.auth.tokens import ALGORITHM, TokenSigner

CACHED = "public, max-age=3600"
CONFIGURATION = [".well-known", "openid-configuration"]
KEYS = ["openid", "v1", "jwks"]


def answer(parts: list[str], signer: TokenSigner, address: str) -> web.Response | None:
    """Answer one of the two documents; None for any other path. ``address`` is where the API server is reached."""
    if parts == KEYS:
        response = json_response(signer.key_set(), content_type="application/jwk-set+json")
    elif parts == CONFIGURATION:
        response = json_response({
            "issuer": signer.issuer,
            "jwks_uri": f"https://{address}/{'/'.join(KEYS)}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        })  # fmt: skip
    else:
        return None
    response.headers["Cache-Control"] = CACHED
    return response
