//! The published formats of vendors' keys: prefix, length and alphabet.

/// The format of a key: a prefix, then a random part.
pub(super) struct KeyFormat {
    pub(super) prefix: &'static str,
    /// The length of the random part: exact, or the minimum.
    pub(super) length: usize,
    pub(super) is_exact: bool,
    pub(super) alphabet: Alphabet,
}

/// The characters of the random part.
#[derive(Clone, Copy)]
pub(super) enum Alphabet {
    /// Digits and `a` to `f` in either case, or these characters too.
    Hex(&'static str),
    /// Digits and capitals.
    Capitals,
    /// Letters and digits, or these characters too.
    Letters(&'static str),
}

impl Alphabet {
    pub(super) fn contains(self, byte: u8) -> bool {
        match self {
            Self::Hex(others) => byte.is_ascii_hexdigit() || others.as_bytes().contains(&byte),
            Self::Capitals => byte.is_ascii_digit() || byte.is_ascii_uppercase(),
            Self::Letters(others) => {
                byte.is_ascii_alphanumeric() || others.as_bytes().contains(&byte)
            }
        }
    }
}

const fn least(prefix: &'static str, length: usize, alphabet: Alphabet) -> KeyFormat {
    KeyFormat { prefix, length, is_exact: false, alphabet }
}

const fn exact(prefix: &'static str, length: usize, alphabet: Alphabet) -> KeyFormat {
    KeyFormat { prefix, length, is_exact: true, alphabet }
}

const HEX: Alphabet = Alphabet::Hex("");
const UUID: Alphabet = Alphabet::Hex("-");
const CAPITALS: Alphabet = Alphabet::Capitals;
const PLAIN: Alphabet = Alphabet::Letters("");
const URL: Alphabet = Alphabet::Letters("_-");
const BASE64: Alphabet = Alphabet::Letters("+/=");
const DOTTED: Alphabet = Alphabet::Letters("_-.=");
const PATH: Alphabet = Alphabet::Letters("_-/@:");

/// The key formats, as the vendors publish them. A longer prefix comes before its start.
pub(super) const KEY_FORMATS: &[KeyFormat] = &[
    least("trg_", 20, URL), // Treering
    // Models
    least("sk-", 20, URL), // OpenAI, Anthropic, DeepSeek, OpenRouter, Langfuse
    exact("sk_", 48, HEX), // ElevenLabs
    least("hf_", 30, PLAIN),
    least("api_org_", 30, PLAIN),
    least("gsk_", 30, PLAIN),
    least("xai-", 40, PLAIN),
    least("nvapi-", 40, URL),
    least("pplx-", 30, PLAIN),
    least("r8_", 30, PLAIN), // Replicate
    least("csk-", 40, PLAIN),
    least("pa-", 40, URL), // Voyage
    least("jina_", 40, URL),
    least("fw_", 20, PLAIN), // Fireworks
    least("tvly-", 20, URL),
    exact("fc-", 32, HEX), // Firecrawl
    least("pcsk_", 40, URL),
    least("lsv2_", 40, URL),
    least("e2b_", 32, PLAIN),
    // Clouds and hosting
    exact("AKIA", 16, CAPITALS), // Amazon
    exact("ASIA", 16, CAPITALS),
    exact("ABIA", 16, CAPITALS),
    exact("ACCA", 16, CAPITALS),
    least("ABSKQmVkcm9ja0", 80, BASE64),
    least("AIza", 30, URL), // Google
    least("ya29.", 20, DOTTED),
    least("1//0", 30, URL),
    least("GOCSPX-", 20, URL),
    least("APA91b", 100, URL),
    exact("LTAI", 20, PLAIN),    // Alibaba
    least("dop_v1_", 40, PLAIN), // DigitalOcean
    least("doo_v1_", 40, PLAIN),
    least("dor_v1_", 40, PLAIN),
    least("v1.0-", 150, UUID),  // Cloudflare
    least("AQVN", 35, URL),     // Yandex
    least("HRKU-", 36, URL),    // Heroku
    least("fm1r_", 40, BASE64), // Fly
    least("fm1a_", 40, BASE64),
    least("fm2_", 40, BASE64),
    least("fo1_", 40, URL),
    least("nfp_", 36, PLAIN), // Netlify
    least("rnd_", 28, PLAIN), // Render
    least("ddp_", 36, PLAIN), // Deno
    least("tk-us-", 48, URL), // Scalingo
    least("dapi", 32, UUID),  // Databricks
    exact("4b1d", 38, PLAIN), // ClickHouse
    least("sbp_", 40, HEX),   // Supabase
    least("sb_secret_", 20, URL),
    least("pscale_pw_", 32, DOTTED),
    least("pscale_tkn_", 32, DOTTED),
    least("pscale_oauth_", 32, DOTTED),
    least("napi_", 40, PLAIN), // Neon
    least("pul-", 40, HEX),    // Pulumi
    least("hvs.", 20, URL),    // Vault
    least("hvb.", 20, URL),
    least("dp.pt.", 40, PLAIN), // Doppler
    least("dp.st.", 40, DOTTED),
    least("dp.ct.", 40, PLAIN),
    least("ops_eyJ", 40, BASE64), // 1Password
    least("tskey-", 20, URL),     // Tailscale
    least("sha256~", 43, URL),    // OpenShift
    // Code and packages
    least("ghp_", 30, PLAIN), // GitHub
    least("gho_", 30, PLAIN),
    least("ghu_", 30, PLAIN),
    least("ghs_", 30, PLAIN),
    least("ghr_", 30, PLAIN),
    least("github_pat_", 22, URL),
    least("glpat-", 20, DOTTED), // GitLab
    least("gldt-", 20, URL),
    least("glrt-", 20, DOTTED),
    least("glcbt-", 20, URL),
    least("glptt-", 20, URL),
    least("glft-", 20, URL),
    least("glsoat-", 20, URL),
    least("glimt-", 20, URL),
    least("glagent-", 20, URL),
    least("gloas-", 20, URL),
    least("GR1348941", 20, URL),
    least("ATATT3", 40, DOTTED), // Atlassian
    least("ATCTT3", 40, DOTTED),
    least("ATBB", 28, DOTTED),
    exact("ATTA", 72, HEX), // Trello
    least("npm_", 36, PLAIN),
    least("pypi-", 40, URL),
    least("rubygems_", 40, PLAIN),
    exact("cio", 32, PLAIN), // crates.io
    exact("oy2", 43, PLAIN), // NuGet
    exact("CLOJARS_", 60, PLAIN),
    least("dckr_pat_", 20, URL),
    least("dckr_oat_", 20, URL),
    exact("AKCp", 69, PLAIN), // Artifactory
    exact("cmVmd", 59, PLAIN),
    least("CCIPAT_", 40, URL),
    least("bkua_", 40, HEX), // Buildkite
    least("squ_", 40, HEX),  // Sonar
    least("sqp_", 40, HEX),
    least("sqa_", 40, HEX),
    least("sgp_", 40, URL), // Sourcegraph, Segment
    least("snyk_uat.", 20, DOTTED),
    least("perm:", 40, DOTTED), // JetBrains
    least("waka_", 36, UUID),
    exact("API-", 26, CAPITALS), // Octopus
    // Payments
    least("sk_live_", 16, PLAIN), // Stripe
    least("sk_test_", 16, PLAIN),
    least("rk_live_", 16, PLAIN),
    least("rk_test_", 16, PLAIN),
    least("whsec_", 20, BASE64),
    least("sq0csp-", 30, URL), // Square
    least("sq0atp-", 20, URL),
    least("EAA", 60, PLAIN),    // Square, Meta
    least("shpat_", 30, PLAIN), // Shopify
    least("shpss_", 30, PLAIN),
    least("shpca_", 30, PLAIN),
    least("shppa_", 30, PLAIN),
    least("rzp_live_", 14, PLAIN), // Razorpay
    least("rzp_test_", 14, PLAIN),
    least("access_token$production$", 40, Alphabet::Letters("$")), // PayPal
    least("FLWSECK", 30, URL),                                     // Flutterwave
    least("EZAK", 54, PLAIN),                                      // EasyPost
    least("EZTK", 54, PLAIN),
    least("shippo_live_", 40, HEX),
    least("shippo_test_", 40, HEX),
    // Messaging
    least("xoxb-", 10, URL), // Slack
    least("xoxp-", 10, URL),
    least("xoxa-", 10, URL),
    least("xoxr-", 10, URL),
    least("xoxs-", 10, URL),
    least("xoxc-", 10, URL),
    least("xoxd-", 10, Alphabet::Letters("_-%")),
    least("xoxe-", 10, URL),
    least("xoxe.xox", 10, DOTTED),
    least("xapp-", 10, URL),
    least("hooks.slack.com/services/", 20, PATH),
    least("hooks.slack.com/workflows/", 20, PATH),
    least("hooks.slack.com/triggers/", 20, PATH),
    least("discord.com/api/webhooks/", 40, PATH),
    least("discordapp.com/api/webhooks/", 40, PATH),
    least("outlook.office.com/webhook/", 40, PATH),
    least("hooks.zapier.com/hooks/catch/", 12, PATH),
    least("open.feishu.cn/open-apis/bot/v2/hook/", 30, PATH),
    least("api.telegram.org/bot", 40, PATH),
    exact("SK", 32, HEX),     // Twilio
    exact("key-", 32, HEX),   // Mailgun
    least("SG.", 40, DOTTED), // SendGrid
    least("re_", 30, URL),    // Resend
    least("xkeysib-", 64, URL),
    least("xsmtpsib-", 64, URL),
    least("md-", 22, URL),      // Mandrill
    least("dG9rO", 50, BASE64), // Intercom
    // Monitoring
    least("sntrys_", 40, Alphabet::Letters("_+/=")), // Sentry
    least("sntryu_", 40, HEX),
    least("glsa_", 30, URL), // Grafana
    least("glc_", 30, BASE64),
    least("eyJrIjoi", 40, BASE64),
    least("NRAK-", 27, CAPITALS), // New Relic
    least("NRII-", 32, URL),
    least("dt0c01.", 60, DOTTED), // Dynatrace
    least("phx_", 40, PLAIN),     // PostHog
    exact("sdk-", 36, UUID),      // LaunchDarkly
    exact("api-", 36, UUID),
    // Productivity
    least("lin_api_", 30, PLAIN), // Linear
    least("lin_oauth_", 30, PLAIN),
    least("ntn_", 40, PLAIN), // Notion
    exact("secret_", 43, PLAIN),
    least("figd_", 30, URL),                  // Figma
    exact("pat", 79, Alphabet::Letters(".")), // Airtable
    least("pat-na1-", 36, UUID),              // HubSpot
    least("pat-eu1-", 36, UUID),
    least("CFPAT-", 40, URL),    // Contentful
    least("PMAK-", 40, URL),     // Postman
    least("tfp_", 40, DOTTED),   // Typeform
    least("sl.", 60, URL),       // Dropbox
    least("sk.eyJ", 60, DOTTED), // Mapbox
    exact("p8e-", 32, PLAIN),    // Adobe
    least("rdme_", 60, PLAIN),   // ReadMe
    least("ico-", 32, PLAIN),    // Infracost
    least("pnu_", 36, PLAIN),    // Prefect
    least("duffel_live_", 40, URL),
    least("duffel_test_", 40, URL),
    // Other
    least("AGE-SECRET-KEY-1", 40, CAPITALS),
    least("xprv", 100, PLAIN),
    exact("A3-", 36, Alphabet::Letters("-")), // 1Password
    exact("A3-", 37, Alphabet::Letters("-")),
    // "-----BEGIN … PRIVATE KEY" in base64, as in a kubeconfig
    least("LS0tLS1CRUdJTiBQUklWQVRF", 40, BASE64),
    least("LS0tLS1CRUdJTiBSU0EgUFJJVkFUR", 40, BASE64),
    least("LS0tLS1CRUdJTiBFQyBQUklWQVRF", 40, BASE64),
    least("LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUg", 40, BASE64),
];
