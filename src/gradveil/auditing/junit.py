"""An audit as JUnit XML, which continuous integration shows: every row is a test, refuted ones are failures."""

from xml.etree import ElementTree

from gradveil.auditing.audit_record import AuditRecord, AuditRow


def junit(record: AuditRecord) -> bytes:
    """Return the record as one test suite; a row without power is skipped."""
    counts = {verdict: sum(row.verdict == verdict for row in record.rows) for verdict in ("refuted", "no-power")}
    suite = ElementTree.Element(
        "testsuite",
        name=f"gradveil audit {record.subject}",
        tests=str(len(record.rows)),
        failures=str(counts["refuted"]),
        skipped=str(counts["no-power"]),
        errors="0",
        time=f"{sum(row.seconds for row in record.rows):.3f}",
    )
    for row in record.rows:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"audit.{row.level}",
            name=f"{row.threat_model}, one {row.unit}, delta {row.delta:g}",
            time=f"{row.seconds:.3f}",
        )
        if row.verdict == "refuted":
            ElementTree.SubElement(case, "failure", message=sentence(row))
        if row.verdict == "no-power":
            ElementTree.SubElement(case, "skipped", message=sentence(row))
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))


def sentence(row: AuditRow) -> str:
    """Say what a row found."""
    claimed = "nothing" if row.tested is None else f"epsilon {row.tested:.3g}"
    return (
        f"claimed {claimed} at delta {row.delta:g}, measured at least {row.lower_bound:.3g} "
        f"(at most {row.ceiling:.3g} could have been shown): {row.verdict}; {row.why}"
    )
