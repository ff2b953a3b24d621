"""Answers from documents of your own instead of the index; the evaluator still judges them.

usage: python examples/own_documents.py
"""

import httpx

reply = httpx.post(
    "http://127.0.0.1:8000/v1/answer",
    json={
        "question": "Who keeps the lighthouse of Norrby?",
        "documents": [
            {"title": "Norrby", "text": "The lighthouse of Norrby is kept by Ingrid Ek since 1998."},
            "Kale is a leafy vegetable of the cabbage family.",
        ],
        "options": {"search": False},
    },
    timeout=60,
)
reply.raise_for_status()
answer = reply.json()
print(answer["answer"])
print("action:", answer["action"])
for document in answer["trace"]["documents"]:
    print(f"{document['score']:+.3f}  {document['document_id']}  {document['title']}")
