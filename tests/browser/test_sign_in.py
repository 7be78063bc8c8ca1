"""Sign-in against a provider of our own: nobody comes in before, and the link asked for is kept."""

from playwright.sync_api import expect

from benchmarks.browser import ROOT, serve
from tests.browser.oidc import CLIENT, SECRET, provider

SECRETS = """
[auth]
redirect_uri = "http://127.0.0.1:{{port}}/oauth2callback"
cookie_secret = "thirty-two characters of a secret, or more"
client_id = "{client}"
client_secret = "{secret}"
server_metadata_url = "{base}/.well-known/openid-configuration"

[sign_in]
allowed = ["@example.org"]
"""


def test_sign_in_keeps_the_link_and_lets_in_those_on_the_list(browser, tmp_path, pictures):
    file = tmp_path / "secrets.toml"
    with provider() as base:
        file.write_text(SECRETS.format(client=CLIENT, secret=SECRET, base=base))
        with serve(ROOT / "app.py", STREAMLIT_SECRETS_FILES=str(file)) as lab:
            window = browser.new_context(viewport={"width": 1280, "height": 800})
            page = window.new_page()
            page.goto(f"{lab}/generalization?generalization-seed=7")
            expect(page.get_by_role("button", name="Sign in")).to_be_visible()
            expect(page.locator(".lab-chart, [data-testid=stTopNavLink]")).to_have_count(0)
            page.screenshot(path=pictures / "sign-in.png")
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("link", name="ada@example.org").click()
            seed = page.get_by_role("spinbutton", name="Seed")
            expect(seed).to_have_value("7")
            expect(page.locator(".lab-chart[data-state=drawn]").first).to_be_visible()
            expect(page.get_by_text("Ada", exact=True)).to_be_visible()
            page.screenshot(path=pictures / "signed-in.png")
            page.get_by_role("button", name="Sign out").click()
            expect(page.get_by_role("button", name="Sign in")).to_be_visible()
            # Someone whom the provider knows, and the lab does not.
            page.goto(f"{lab}/landscape")
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("link", name="eve@elsewhere.org").click()
            expect(page.get_by_text("not on the list of this lab")).to_be_visible()
            expect(page.locator(".lab-chart")).to_have_count(0)
            window.close()
