"""Streams an answer with the official OpenAI client, then prints what it rests on.

usage: python examples/openai_client.py "Who wrote Nineteen Eighty-Four?"
"""

import sys

from openai import OpenAI

client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="unused")
question = sys.argv[1] if len(sys.argv) > 1 else "Who wrote Nineteen Eighty-Four?"
stream = client.chat.completions.create(
    model="crag", messages=[{"role": "user", "content": question}], stream=True
)
for chunk in stream:
    print(chunk.choices[0].delta.content or "", end="", flush=True)
    if chunk.choices[0].finish_reason:
        crag = (chunk.model_extra or {})["crag"]
print(f"\n\naction: {crag['action']}, evidence: {crag['evidence_quality']}")
for citation in crag["citations"]:
    print(f"[{citation['index']}] {citation['title']}: {citation['text']}")
