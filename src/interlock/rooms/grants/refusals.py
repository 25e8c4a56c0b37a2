"""Why a grant cannot be issued or revoked, and why a key cannot sign."""

from __future__ import annotations

from interlock.kernel.refusal import Next, Refusal


class BadSignature(Refusal):
    """A grant that comes with a signature must come with a good one."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the grant was not issued ({why}); have the key registered, or sign again")
        self.next = Next("add_signer", {}, needs=("public_key",))


class SignatureRequired(Refusal):
    """An unsigned grant of this task could never be claimed, so none is issued."""

    def __init__(self, task: str) -> None:
        super().__init__(
            f"the grant was not issued: {task} needs a signed one; sign it, and send its signature along"
        )
        self.next = Next("issue_grant", {"task": task}, needs=("signature",))


class BadGrantTime(Refusal):
    """A grant must end in the future, and not too far in it."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the grant was not issued: {why}; it must end in the future, at most 366 days from now"
        )


class BadGrantMoment(BadGrantTime):
    """The same, of one whose end was given as a moment."""


class GrantExists(Refusal):
    """A signature is good for one grant, and that one exists."""

    def __init__(self, grant_id: str, state: str) -> None:
        super().__init__(f"grant {grant_id} exists and is {state}; sign a new one with a new nonce")
        self.state = state


class GrantOver(Refusal):
    """A grant that is spent or expired stays so: revoking it would hide its real end."""

    def __init__(self, grant_id: str, state: str) -> None:
        super().__init__(
            f"grant {grant_id} is {state}; there is nothing left to revoke. Read what became of it"
        )
        self.next = Next("get_grant", {"grant_id": grant_id})
        self.state = state


class SignerTaken(Refusal):
    """A key belongs to one person, once."""

    def __init__(self, fingerprint: str, why: str) -> None:
        super().__init__(f"key {fingerprint} {why}; make a new key with `ssh-keygen -t ed25519`")


class NotAPublicKey(Refusal):
    """The input is not an Ed25519 public key."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"that is not an Ed25519 public key ({why}); send a line such as `ssh-ed25519 AAAA…`"
        )
