"""The policy in the browser: read it, try a text out on lines, jobs and history, apply it, go back."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from interlock.console.policy import remarked_lines
from interlock.wire.policy import PolicyWarning
from tests.harness.browser import audit_accessibility
from tests.harness.console_site import POLICY, ConsoleSite

LOOSER = POLICY.replace("> 10000", "> 1000000")
BROKEN = (
    "version: v1\ndefault: maybe\nrules:\n  - id: a\n    when: {topic: x, colour: red}\n    decision: allow\n"
)


def opened(console: ConsoleSite, page: Page, key: str, path: str = "") -> None:
    console.sign_in(page, key)
    page.goto(f"{console.url}/console/policy{path}")


def written(page: Page, text: str, button: str) -> None:
    page.get_by_label("Policy text (YAML)").fill(text)
    page.get_by_role("button", name=button, exact=True).click()


def test_the_policy_in_force_is_shown_with_since_when_and_by_whom(
    console: ConsoleSite, page_in_each_scheme: Page
) -> None:
    page = page_in_each_scheme
    opened(console, page, console.bob)
    in_force = page.get_by_role("region", name="In force", exact=True)
    expect(in_force).to_contain_text("by operator")
    expect(in_force).to_contain_text("2 rules, else ✕ deny")
    page.get_by_text("The rules; the first that matches decides").click()
    rules = page.get_by_role("region", name="Rules in force")
    expect(rules).to_contain_text("payload.amount_cents > 10000")
    expect(rules).to_contain_text("1 person of finance")
    expect(page.get_by_label("Policy text (YAML)")).to_have_value(POLICY)
    expect(page.get_by_role("button", name="Apply")).to_have_count(0)  # bob is no admin
    expect(page.get_by_text("Only an admin can apply it.")).to_be_visible()
    audit_accessibility(page)
    console.client(console.ann).apply_policy(LOOSER)
    expect(in_force).to_contain_text("by ann")


def test_what_is_wrong_is_shown_beside_its_line(console: ConsoleSite, page_in_each_scheme: Page) -> None:
    page = page_in_each_scheme
    opened(console, page, console.ann)
    written(page, BROKEN, "Check")
    expect(page.get_by_role("alert")).to_contain_text("2 problems found, the first in line 2")
    lines = page.get_by_role("region", name="Errors, by line")
    second = lines.get_by_role("row").filter(has_text="default: maybe")
    expect(second).to_contain_text("expected 'allow', 'deny' or 'require_human'")
    expect(lines.get_by_role("row").filter(has_text="colour: red")).to_contain_text("unknown field 'colour'")
    expect(page.get_by_label("Policy text (YAML)")).to_have_value(BROKEN)
    audit_accessibility(page)
    lines.get_by_role("link", name="5").click()
    expect(page.get_by_label("Policy text (YAML)")).to_be_focused()
    chosen = "element => element.value.slice(element.selectionStart, element.selectionEnd)"
    assert page.locator("#policy").evaluate(chosen) == "    when: {topic: x, colour: red}"


def test_a_text_is_checked_compared_simulated_and_tested_without_javascript(
    console: ConsoleSite, plain_page: Page
) -> None:
    page, job = plain_page, console.submit(25_000)
    console.submit(500)
    opened(console, page, console.bob)
    written(page, LOOSER, "Check")
    expect(page.get_by_role("status").first).to_contain_text("The text is a policy. 1 warning: see below.")
    expect(page.get_by_role("region", name="Warnings, by line")).to_contain_text("may be missing")
    page.get_by_role("button", name="Diff").click()
    changes = page.get_by_role("region", name="Changes to the policy in force")
    expect(changes.locator("[data-kind=gone]")).to_contain_text("payload.amount_cents > 10000")
    expect(changes.locator("[data-kind=new]")).to_contain_text("payload.amount_cents > 1000000")
    page.get_by_role("button", name="Simulate").click()
    simulated = page.get_by_role("region", name="Simulate", exact=True)
    expect(simulated).to_contain_text("1 of 2 jobs would have been decided otherwise.")
    change = simulated.get_by_role("row").filter(has_text="finance.payment.execute")
    expect(change).to_contain_text("require human large-payments-need-finance")
    expect(change).to_contain_text("allow small-payments-run")
    page.get_by_label("A job: its id, or pasted as JSON").fill(job.id)
    page.get_by_role("button", name="Test").click()
    tested = page.get_by_role("region", name="Test on a job")
    expect(tested).to_contain_text("allow because rule small-payments-run matches")
    expect(tested).to_contain_text("the text above, which is not in force")
    expect(tested).to_contain_text("large-payments-need-finance if: payload.amount_cents > 1000000 was false")
    assert console.client(console.ann).get_policy().source == POLICY


def test_a_pasted_job_is_tested_and_what_is_no_job_is_told(console: ConsoleSite, page: Page) -> None:
    opened(console, page, console.bob)
    job, tested = page.get_by_label("A job: its id"), page.get_by_role("region", name="Test on a job")
    for text, said in (
        ('{"topic": "finance.payment.execute", "env": "production", "payload": {"amount_cents": 25000}}', ""),
        ('{"topic": "finance.payment.execute", "topic": "x"}', "duplicate"),
        ("{not json", "not JSON"),
        ("job_nothing", "job_nothing"),
        ("", "Which job?"),
    ):
        job.fill(text)
        page.get_by_role("button", name="Test").click()
        if said:
            expect(page.get_by_role("alert")).to_contain_text(said)
        else:
            expect(tested).to_contain_text("require human because rule large-payments-need-finance matches")
            expect(tested).to_contain_text("Evaluated with the policy in force")
            expect(tested).to_contain_text("It asks 1 person of finance, within 1 d")
        expect(job).to_have_value(text)


def test_a_text_is_applied_after_a_look_at_what_it_changes(
    console: ConsoleSite, page_in_each_scheme: Page
) -> None:
    page = page_in_each_scheme
    console.submit(25_000)
    opened(console, page, console.ann)
    written(page, LOOSER, "Apply")
    review = page.get_by_role("region", name="Put this in force?")
    expect(review).to_contain_text("1 line added, 1 removed. 1 of the last 1 jobs would have been decided")
    assert console.client(console.ann).get_policy().source == POLICY
    audit_accessibility(page)
    page.get_by_label("Last jobs").press("Enter")  # the form's own button checks: Enter applies nothing
    expect(page.get_by_role("status").first).to_contain_text("The text is a policy.")
    assert console.client(console.ann).get_policy().source == POLICY
    page.get_by_role("button", name="Apply", exact=True).click()
    page.get_by_role("button", name="Put in force").click()
    expect(page.get_by_role("status").first).to_contain_text("The policy is in force.")
    policy = console.client(console.ann).get_policy()
    assert (policy.source, policy.activated_by) == (LOOSER, "ann")


def test_a_policy_that_somebody_else_changed_meanwhile_is_not_overwritten(
    console: ConsoleSite, plain_page: Page
) -> None:
    page, ann = plain_page, console.client(console.ann)
    opened(console, page, console.ann)
    written(page, LOOSER, "Apply")
    theirs = POLICY.replace("default: deny", "default: require_human")
    ann.apply_policy(theirs)
    page.get_by_role("button", name="Put in force").click()
    expect(page.get_by_role("alert")).to_contain_text("no longer the one you began with")
    assert ann.get_policy().source == theirs
    changes = page.get_by_role("region", name="Changes to the policy in force")
    expect(changes.locator("[data-kind=gone]").first).to_contain_text("default: require_human")
    page.get_by_role("button", name="Put in force").click()
    expect(page.get_by_role("status").first).to_contain_text("The policy is in force.")
    assert ann.get_policy().source == LOOSER


def test_earlier_policies_are_compared_and_rolled_back_to(
    console: ConsoleSite, page_in_each_scheme: Page
) -> None:
    page, ann = page_in_each_scheme, console.client(console.ann)
    first = ann.get_policy().snapshot
    ann.apply_policy(LOOSER)
    opened(console, page, console.ann, f"?from={first}")
    since = page.get_by_role("region", name="What changed since")
    expect(since.locator("[data-kind=new]")).to_contain_text("payload.amount_cents > 1000000")
    page.get_by_role("link", name="Snapshots").click()
    audit_accessibility(page)
    expect(page.locator("[data-row]")).to_have_count(2)
    page.locator(f"[data-id='{first}']").get_by_text("Roll back…").click()
    page.get_by_role("button", name="Put it back in force").click()
    expect(page.get_by_role("status").first).to_contain_text("The earlier policy is in force again.")
    assert ann.get_policy().snapshot == first
    page.context.clear_cookies()
    opened(console, page, console.bob, "?tab=snapshots")
    expect(page.locator("[data-row]")).to_have_count(2)
    expect(page.get_by_text("Roll back…")).to_have_count(0)
    forms: tuple[tuple[str, dict[str, str | float | bool]], ...] = (
        ("", {"do": "put", "policy": LOOSER}),
        ("/rollback", {"snapshot": first}),
    )
    for path, form in forms:
        answer = page.context.request.post(
            f"{console.url}/console/policy{path}", form=form, headers={"origin": console.url}
        )
        assert answer.status == 403


def test_what_observing_let_pass_is_listed(console: ConsoleSite, page_in_each_scheme: Page) -> None:
    page, ann = page_in_each_scheme, console.client(console.ann)
    opened(console, page, console.bob, "?tab=observed")
    expect(page.get_by_text("Nothing was let pass that would have been stopped.")).to_be_visible()
    ann.apply_policy(POLICY.replace("version: v1", "version: v1\nmode: observe"))
    console.submit(25_000)
    row = page.locator("[data-row]")
    expect(row).to_contain_text("require human")
    expect(row).to_contain_text("large-payments-need-finance")
    audit_accessibility(page)
    page.get_by_role("link", name="In force").click()
    expect(page.get_by_text("It only observes.")).to_be_visible()


def test_the_editor_fits_a_phone(console: ConsoleSite, phone_page: Page) -> None:
    opened(console, phone_page, console.ann)
    written(phone_page, BROKEN, "Check")
    expect(phone_page.get_by_role("alert")).to_be_visible()
    assert phone_page.evaluate("document.documentElement.scrollWidth") <= 360


def test_lines_far_from_what_is_said_are_left_out() -> None:
    text = "\n".join(f"line {number}" for number in range(1, 31))
    remarks = [
        PolicyWarning(line=2, reason="a"),
        PolicyWarning(line=20, reason="b"),
        PolicyWarning(line=99, reason="c"),
    ]
    shown = remarked_lines(text, remarks)
    assert [line and line["number"] for line in shown] == [
        1,
        2,
        3,
        4,
        None,
        18,
        19,
        20,
        21,
        22,
        None,
        28,
        29,
        30,
    ]
    assert [len(line["remarks"]) for line in shown if line] == [0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
