"""What is due and when, with a moving clock."""

from __future__ import annotations

from datetime import timedelta

import pytest
from cryptography import x509

from surgekit.tls import CertificateError, Client, Server
from surgekit.tls.issue import CA_OVERLAP, Pem, Renewal, renew
from tests.surgekit.tls.builders import NOW, WANTED


def after(renewal: Renewal, days: float, wanted: list[Server | Client] | None = None) -> Renewal:
    now = NOW + timedelta(days=days)
    return renew(renewal.ca, renewal.leaves, WANTED if wanted is None else wanted, now)


def actions(renewal: Renewal) -> dict[str, str]:
    return {change.name: change.action.value for change in renewal.changes}


def authorities(pem: Pem) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem.certificates)


class TestWhatIsDue:
    def test_everything_is_created_once_and_then_kept(self) -> None:
        first = renew(None, {}, WANTED, NOW)
        assert actions(first) == {"ca": "created", "server": "created", "client": "created"}
        second = after(first, days=1)
        assert actions(second) == {"ca": "kept", "server": "kept", "client": "kept"}
        assert (second.ca, second.leaves) == (first.ca, first.leaves)

    @pytest.mark.parametrize(("days", "expected"), [(240, "kept"), (245, "renewed"), (400, "renewed")])
    def test_a_leaf_is_renewed_when_under_a_third_of_its_year_is_left(self, days: int, expected: str) -> None:
        assert actions(after(renew(None, {}, WANTED, NOW), days))["server"] == expected

    def test_other_hosts_mean_another_certificate(self) -> None:
        moved = after(renew(None, {}, WANTED, NOW), 1, [Server("server", ("elsewhere.svc",)), WANTED[1]])
        assert actions(moved) == {"ca": "kept", "server": "renewed", "client": "kept"}

    def test_a_lost_or_foreign_ca_replaces_every_leaf(self) -> None:
        first = renew(None, {}, WANTED, NOW)
        for ca in (None, Pem(b"garbage", b"garbage"), Pem(first.ca.certificates, b"")):
            again = renew(ca, first.leaves, WANTED, NOW)
            assert {actions(again)["server"], actions(again)["client"]} == {"renewed"}

    @pytest.mark.parametrize("broken", [Pem(b"", b""), Pem(b"-----BEGIN", b"x")])
    def test_unreadable_leaves_are_replaced(self, broken: Pem) -> None:
        first = renew(None, {}, WANTED, NOW)
        assert actions(renew(first.ca, {"server": broken}, WANTED[:1], NOW))["server"] == "renewed"

    def test_a_key_of_another_certificate_is_noticed(self) -> None:
        first = renew(None, {}, WANTED, NOW)
        mixed = Pem(first.leaves["server"].certificates, first.leaves["client"].keys)
        change = renew(first.ca, {"server": mixed}, WANTED[:1], NOW).changes[1]
        assert (change.action.value, change.reason) == (
            "renewed",
            "its key does not belong to its certificate",
        )

    def test_a_new_ca_is_published_before_it_signs(self) -> None:
        """Someone who has only the old bundle, or only the new one, verifies every leaf ever served."""
        state = renew(None, {}, WANTED, NOW)
        (old_ca,) = authorities(state.ca)
        due = 3650 * 2 / 3 + 1
        published = after(state, due)
        assert actions(published)["ca"] == "renewed"
        new_ca, still_trusted = authorities(published.ca)
        assert still_trusted == old_ca
        leaf = x509.load_pem_x509_certificate(published.leaves["server"].certificates)
        leaf.verify_directly_issued_by(old_ca)
        signing = after(published, due + CA_OVERLAP.days + 1)
        assert actions(signing) == {"ca": "kept", "server": "renewed", "client": "renewed"}
        leaf = x509.load_pem_x509_certificate(signing.leaves["server"].certificates)
        leaf.verify_directly_issued_by(new_ca)
        assert len(authorities(signing.ca)) == 2
        assert authorities(after(signing, 3651).ca) == [new_ca]

    def test_a_run_a_month_for_twenty_years_never_serves_anything_expired_or_untrusted(self) -> None:
        state = renew(None, {}, WANTED, NOW)
        read_long_ago = state.ca  # what a scheduler restarted once a fortnight still trusts
        for days in range(14, 20 * 365, 14):
            state, now = after(state, days), NOW + timedelta(days=days)
            for pem in state.leaves.values():
                leaf = x509.load_pem_x509_certificate(pem.certificates)
                assert leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc
                assert leaf.issuer in [ca.subject for ca in authorities(read_long_ago)]
            assert len(authorities(state.ca)) <= 2
            read_long_ago = state.ca

    def test_each_certificate_serves_one_purpose(self) -> None:
        made = renew(None, {}, WANTED, NOW)
        purposes = {}
        for name, pem in made.leaves.items():
            extensions = x509.load_pem_x509_certificate(pem.certificates).extensions
            usage = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            purposes[name] = [oid._name for oid in usage]
        assert purposes == {"server": ["serverAuth"], "client": ["clientAuth"]}

    @pytest.mark.parametrize("host", ["under_score", "UPPER.case", "", "a b", "-x", "http://x"])
    def test_a_bad_host_is_named(self, host: str) -> None:
        with pytest.raises(CertificateError, match=f"host {host!r}"):
            Server("server", (host,))

    def test_a_private_key_is_not_shown_in_logs(self) -> None:
        assert "PRIVATE KEY" not in repr(renew(None, {}, WANTED, NOW))
