"""What an editor shows on hover in a policy and in `interlock.yaml`: one entry for each field, in plain words."""

from __future__ import annotations

POLICY = {
    "": (
        "What agents may do by themselves, what people must agree to, and what never happens. Rules are read "
        "from top to bottom; the first one that matches decides."
    ),
    "version": "The version of the policy language. Write v1.",
    "mode": (
        "enforce: decisions are binding. observe: decisions are only recorded, and every job may run; use it "
        "to try a policy on real traffic."
    ),
    "default": "What happens to a job that no rule matches: deny (also if you leave it out), allow or require_human.",
    "rules": "The rules, in order. The first one that matches a job decides it.",
}

RULE = {
    "id": (
        "The rule's name in answers, in the audit log and in reports. Letters, digits, dots, dashes and "
        "underscores; unique in the file."
    ),
    "when": (
        "What the rule applies to. Every field that is given must match. Without `when` the rule applies to "
        "every job."
    ),
    "if": (
        "A condition in CEL, asked only where `when` matches. It sees topic, env, channel, labels, risk, "
        "payload, priority, tenant and actor. Test a field that may be missing first: "
        "has(payload.amount_cents) && payload.amount_cents > 10000. In YAML, put quotes around what begins "
        "with `!`."
    ),
    "decision": (
        "allow: the job may run. deny: it never runs. require_human: it waits for people, as `approval` says. "
        "throttle: it is refused past the rate in `throttle`; within it, `then` decides."
    ),
    "approval": (
        "Who must agree, and for how long they may be asked. Goes with require_human, as the decision or as "
        "`then`."
    ),
    "throttle": "How many jobs pass, and how fast. Goes with `decision: throttle` and needs `then`.",
    "then": "What happens to a job within the rate: allow, deny or require_human.",
    "reason": "Why, in words that the agent and its owner are shown when this rule decides.",
}

WHEN = {
    "topic": (
        "The job's topic, or a pattern: `*` is one segment between dots, `**` any number of them, none "
        "included. A list matches if any of its patterns does."
    ),
    "env": 'The environment, such as production. `*` is any run of characters; "" asks for a job without one.',
    "channel": 'Where the request came from. `*` is any run of characters; "" asks for a job without one.',
    "actor": "The submitter's name. `*` is any run of characters.",
    "tenant": "The tenant's name. `*` is any run of characters.",
    "risk": "Any of the risks that the job declares. `*` is any run of characters.",
    "labels": 'The value of this label. `"*"` asks only that the label is there.',
}

APPROVAL = {
    "quorum": "How many different people must approve. A person counts once.",
    "groups": "Who may decide: people in one of these groups. Without groups, any reviewer.",
    "self_approval": "Whether the submitter may decide. The owner of an agent counts as the agent.",
    "expires_in": "How long people have, such as 30m, 4h or 7d. At most 366d.",
    "on_expiry": (
        "What happens when the time is over. deny: the job ends. escalate: people have as long again, and "
        "every step of `escalate` is open."
    ),
    "escalate": (
        "Groups that may decide too, from a moment on. Each step opens before `expires_in`, unless "
        "`on_expiry` is escalate."
    ),
    "binding": (
        "What a change of the policy does to a request that waits. strict: any change asks again. semantic: "
        "only a change that decides this job differently."
    ),
    "require_hash": "Whether every approval must name the version of the request that it is for.",
    "grace": (
        "For this long after the deciding approval its voter may withdraw it, and the job cannot start. 1s to "
        "24h."
    ),
}

ESCALATION = {
    "after": "How long after the request these groups may decide too, such as 30m.",
    "groups": "The groups that may decide from then on.",
}

THROTTLE = {
    "rate": "How fast the bucket refills: a count and a period, such as 5/s, 10/m, 600/h or 1000/d.",
    "burst": "How many jobs pass at once when the bucket is full. Without it, the count of the rate.",
    "key": (
        "One bucket for each value of this field: tenant (one bucket for all), actor, owner, topic, env, "
        "channel or labels.<name>."
    ),
}

TASK = {
    "file": "The tasks that `interlock exec` may run in this folder and below it.",
    "": "A command that `interlock exec` runs once a grant or an approval allows it.",
    "command": (
        "The program and its arguments, as a list: [./deploy.sh, --region, eu]. A text is split into words as "
        "a shell would, but no shell runs; write [sh, -c, '…'] where you need one."
    ),
    "cwd": "The folder in which the command runs, seen from this file.",
    "env": (
        "The names of the variables that the command is given beside the usual ones. Of their values only "
        "hashes are recorded."
    ),
    "timeout": "After this long the command is stopped, such as 30s, 10m or 2h. From 1s to 23h.",
    "approval": "What people must have said before the command runs. It adds to the policy, and never takes from it.",
}

TASK_APPROVAL = {
    "required": "Whether a person must have agreed. If false, a policy that allows the task is enough.",
    "groups": "The person who agrees must be in one of these groups.",
    "risk": "Risks that the request declares, for the policy's `when: {risk: …}`.",
    "signed": "Whether the grant must carry a signature of a registered signer.",
}
