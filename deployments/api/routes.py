"""The paths of the API, each written once."""

ROOT = "/"
ANSWER = "/v1/answer"
CHAT_COMPLETIONS = "/v1/chat/completions"
ANSWERS = "/v1/answers/{answer_id}"
MODELS = "/v1/models"
RERANK = "/v1/rerank"
SEARCH = "/v1/search"
EXPLAIN = "/v1/explain"
LIVE = "/livez"
READY = "/readyz"
METRICS = "/metrics"
DOCS = "/docs"
OPENAPI = "/openapi.json"

ANSWER_ROUTES = frozenset({ANSWER, CHAT_COMPLETIONS})
"""Where answers are asked for, and observed."""

OPERATOR_ROUTES = frozenset({METRICS})
"""What tells of the application as a whole, and needs a key with that permission."""

OPEN_ROUTES = frozenset({ROOT, LIVE, READY, DOCS, OPENAPI})
"""What anybody may read: probes have no key, and the documents tell nothing of the application's use."""

OPENAI_ROUTES = frozenset({CHAT_COMPLETIONS, MODELS})
"""Where errors also have the form that OpenAI's clients know."""
