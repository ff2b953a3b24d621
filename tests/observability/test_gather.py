from deployments.observability.gather import merged

PAGE = """# HELP ray_crag_answers_total Answers.
# TYPE ray_crag_answers_total counter
ray_crag_answers_total{{outcome="ok",WorkerId="{worker}"}} {value}
# HELP ray_node_disk_usage Disk.
# TYPE ray_node_disk_usage gauge
ray_node_disk_usage 5.0
"""


def test_pages_of_several_nodes_become_one_with_each_family_once() -> None:
    page = merged([PAGE.format(worker="a", value=1), PAGE.format(worker="b", value=2), ""])
    assert page.count("# TYPE ray_crag_answers_total counter") == 1
    assert page.count('outcome="ok"') == 2
    assert "ray_node_disk_usage" not in page
