"""What is read from a report of the suite, and the table that is made of it."""

from tests.upstream import scheduling_suite

REPORT = [
    {
        "SpecReports": [
            {"LeafNodeType": "BeforeSuite"},
            {
                "LeafNodeType": "It", "LeafNodeText": "fails [Conformance]", "LeafNodeLabels": ["Conformance"],
                "ContainerHierarchyTexts": ["[sig-scheduling] Group [Serial]", "inner"],
                "ContainerHierarchyLabels": [["sig-scheduling"], None], "State": "failed", "RunTime": 1_500_000_000,
                "Failure": {"Message": "why"},
            },
            {
                "LeafNodeType": "It", "LeafNodeText": "A b [Beta]", "LeafNodeLabels": None, "State": "passed",
                "ContainerHierarchyTexts": None, "ContainerHierarchyLabels": None, "RunTime": 0,
            },
        ]
    }
]  # fmt: skip


def test_specs_have_names_without_labels_and_how_they_ended() -> None:
    passed, failed = scheduling_suite.parse(REPORT)
    assert (passed.name, passed.is_conformance, passed.is_fine, passed.message) == ("A b", False, True, "")
    assert (failed.name, failed.is_conformance, failed.is_fine) == ("Group inner fails", True, False)
    assert (failed.spent_s, failed.message) == (1.5, "why")


def test_a_table_has_a_column_for_each_run() -> None:
    specs = scheduling_suite.parse(REPORT)
    assert scheduling_suite.table({"carico": specs, "kube-scheduler": specs[:1]})[2:] == [
        "| A b |  | passed | passed |", "| Group inner fails | yes | failed |  |"
    ]  # fmt: skip
