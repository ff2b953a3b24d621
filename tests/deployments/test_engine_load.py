from deployments.backends.engine_load import EngineLoad


def test_an_engine_is_as_full_as_the_fuller_of_sequences_and_cache() -> None:
    load = EngineLoad(max_sequences=4, kv_tokens=1_000)
    assert load.fill == 0.0
    with load.completion(100), load.completion(100):
        assert load.fill == 0.5
        with load.completion(500) as long:
            assert load.fill == 0.75
            long.tokens += 400
            assert load.fill == 1.1
        assert load.fill == 0.5
    assert load.fill == 0.0


def test_without_a_known_cache_sequences_alone_count() -> None:
    load = EngineLoad(max_sequences=2, kv_tokens=0)
    with load.completion(10_000), load.completion(1), load.completion(1):
        assert load.fill == 1.5
