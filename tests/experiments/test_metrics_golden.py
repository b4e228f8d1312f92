"""nDCG of three known rankings, worked out by hand, with both gains named."""

import pytest

from experiments.metrics import parse_measure, per_query

# Grades 2 for documents 1 and 5, 1 for 0 and 7. Ideal order: grades 2 2 1 1.
# Exponential gain: ideal DCG@5 = 3 + 3/log2(3) + 1/2 + 1/log2(5) = 5.823465.
# Linear gain: 2 + 2/log2(3) + 1/2 + 1/log2(5) = 4.192536.
GRADES = {"0": 1, "1": 2, "5": 2, "7": 1}
RANKINGS = {
    # 3 + 3/log2(3) + 1/2 = 5.392789; 2 + 2/log2(3) + 1/2 = 3.761860
    "bm25": (["1", "5", "0", "4", "6"], 5.392789 / 5.823465, 3.761860 / 4.192536),
    # 3 + 1/log2(3) + 3/2 + 1/log2(5) = 5.561606; 2 + 1/log2(3) + 1 + 1/log2(5) = 4.061606
    "dense": (["1", "7", "5", "0", "3"], 5.561606 / 5.823465, 4.061606 / 4.192536),
    "rrf": (["1", "5", "0", "7", "4"], 1.0, 1.0),
}
PRINTED = {"bm25": (0.9260, 0.8973), "dense": (0.9550, 0.9688), "rrf": (1.0, 1.0)}


@pytest.mark.parametrize("name", RANKINGS)
def test_ndcg_is_the_known_figure_under_either_gain(name: str) -> None:
    ranking, exponential, linear = RANKINGS[name]
    measures = [parse_measure("ndcg_burges@5"), parse_measure("ndcg@5")]
    values = per_query({"q": ranking}, {"q": GRADES}, measures).values
    found = float(values["ndcg_burges@5"][0]), float(values["ndcg@5"][0])
    assert found == pytest.approx((exponential, linear), abs=1e-6)
    assert tuple(round(value, 4) for value in found) == PRINTED[name]
