"""The workloads for Locust: `locust -f benchmarks/locustfile.py --host http://127.0.0.1:8000`.

Locust's users wait for their answers: a closed loop, for peaks and for its dashboard. For latency
at a given rate use `crag load`.
"""

from itertools import count

from locust import HttpUser, constant_throughput, task

from benchmarks.load.outcomes import Outcome
from benchmarks.load.replies import StreamReading, read_answer
from benchmarks.load.settings import LoadSettings
from benchmarks.load.workloads import workload

_NUMBERS = count()
_WHOLE = workload(LoadSettings.model_validate({"workload": {"name": "w2"}}))
_STREAMED = workload(LoadSettings.model_validate({"workload": {"name": "w2", "is_streamed": True}}))
_JSON = {"content-type": "application/json"}


class Asker(HttpUser):
    """Asks W2's questions, one a second at most; three in four answers at once, one streamed."""

    wait_time = constant_throughput(1)

    @task(3)
    def answer(self) -> None:
        """A whole answer."""
        prepared = _WHOLE.request(next(_NUMBERS))
        path = prepared.kind.path
        with self.client.post(
            path, data=prepared.body, headers=_JSON, name=path, catch_response=True
        ) as response:
            if response.status_code == 200:
                reading = read_answer(response.content)
                if not reading.outcome.is_answered:
                    response.failure(reading.code)

    @task(1)
    def streamed_answer(self) -> None:
        """A streamed answer; a stream without its end is a failure, whatever its status."""
        prepared = _STREAMED.request(next(_NUMBERS))
        path = prepared.kind.path
        with self.client.post(
            path, data=prepared.body, headers=_JSON, name=f"{path} (stream)", stream=True,
            catch_response=True,
        ) as response:  # fmt: skip
            stream = StreamReading()
            for piece in response.iter_content(chunk_size=None):
                stream.took(piece, 0.0)
            reading = stream.ended()
            if response.status_code == 200 and reading.outcome is Outcome.BROKEN_STREAM:
                response.failure(reading.code)
