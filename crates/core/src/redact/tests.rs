//! Examples of redacted secrets, and of text that must stay.

use proptest::prelude::*;

use super::*;

/// Checks that the secret is redacted and that redaction is idempotent.
fn assert_redacted(text: &str, secret: &str) {
    let (redacted, redactions) = redact(text);
    assert!(!redacted.contains(secret), "{redacted}");
    assert!(redactions.count() >= 1, "{text}");
    assert_eq!(redact(&redacted).0, redacted, "redaction is idempotent");
}

fn stays(text: &str) {
    let (redacted, redactions) = redact(text);
    assert_eq!(redacted, text, "{redactions}");
    assert!(matches!(redacted, Cow::Borrowed(_)) && redactions.is_empty());
}

#[test]
fn passwords_after_a_gap_go() {
    assert_redacted("curl -u  ana:h4rbour-gate https://x", "h4rbour-gate");
    assert_redacted("curl -u \\\n    ana:h4rbour-gate https://x", "h4rbour-gate");
    assert_redacted("sshpass   -p   h4rbour-gate ssh x", "h4rbour-gate");
}

#[test]
fn secrets_go() {
    assert_redacted("Use sk-proj-Ab3dEf6hIj9lMn2pQr5tUv8x please.", "Ab3dEf6hIj9lMn2pQr5tUv8x");
    assert_redacted("key sk-ant-api03-x7Kd92mQpL-44vbTTyz01_aa.", "x7Kd92mQpL");
    assert_redacted("aws_access_key_id = AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE");
    assert_redacted(
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzQ4kEy12",
        "wJalrXUtnFEMI",
    );
    assert_redacted("token ghp_16C7e42F292c6912E7710c838347Ae178B4a in CI", "ghp_16C7");
    assert_redacted("curl -H 'Authorization: Bearer abc123def456ghi789'", "abc123def456ghi789");
    assert_redacted(
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
        "dozjgNryP4J3jVmNHl0w5N",
    );
    assert_redacted("postgres://ana:s3cr3t!pw@db.local:5432/tides", "s3cr3t!pw");
    assert_redacted("redis://:hunter2@cache:6379", "hunter2");
    assert_redacted("Server=db;User Id=ana;Password=correcthorse;", "correcthorse");
    assert_redacted("export DB_PASSWORD=tr0ub4dor", "tr0ub4dor");
    assert_redacted("{\"api_key\": \"9f8a7b6c5d4e3f2a1b0c\"}", "9f8a7b6c5d4e3f2a1b0c");
    assert_redacted(r#"{\"client_secret\": \"Zk3-99aLwqP2_xx81Tt\"}"#, "Zk3-99aLwqP2_xx81Tt");
    assert_redacted("deploy --token 8s7df6g5h4j3k2l1 --dry-run", "8s7df6g5h4j3k2l1");
    assert_redacted("password: 'naïve café'.replace; passwd: \"geheim\"", "geheim");
}

#[test]
fn private_keys_go_whole_or_cut() {
    let body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\nVJTUt9Us8cKjMzEfYyjiWA4R4";
    let private_key = format!(
        "Here:\n-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\nDone."
    );
    let (redacted, _) = redact(&private_key);
    assert_eq!(redacted, "Here:\n[redacted private key]\nDone.");
    assert_redacted(&format!("-----BEGIN PRIVATE KEY-----\n{body}\nVJT"), "VJT");
    assert_redacted(&format!("{body}\n-----END PRIVATE KEY-----\nmore words"), "VJTUt9Us8cKj");
    assert_redacted(
        &format!("-----BEGIN OPENSSH PRIVATE KEY-----\\n{}", body.replace('\n', "\\n")),
        "VJTUt9Us8cKj",
    );
    stays("A file that begins with -----BEGIN CERTIFICATE----- is no secret.");
}

#[test]
fn ordinary_text_and_code_stay() {
    for text in [
        "The password is kept by the office; ask Ana for the token.",
        "max_tokens: 4096, token_count = 18234, tokens_per_minute=90000",
        "commit 3f9a0c1be4d7726f8a9b0c1d2e3f405162738495 fixes the task-force bug",
        "sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "let token = parser.next_token()?; let secret = Secret::ApiKey;",
        "password: String, api_key: Option<String>, secret_name: &str",
        "password = os.environ[\"DB_PASSWORD\"]; token = ${GITHUB_TOKEN}",
        "https://example.org/a:b@c and http://127.0.0.1:7410/v1 and git@github.com:a/b.git",
        "postgres://user:<password>@host/db",
        "id 550e8400-e29b-41d4-a716-446655440000, node l1-3f9a0c1be4d7726f-20251209",
        "Basic understanding of distributedsystems2 and bearer bonds",
        "Le mot de passe : voir le coffre. Das Passwort bleibt geheim.",
        "sk-learn-compatible-estimators-are-fine, disk-usage-of-the-machine too",
        "if password == stored_password { accept(token) }",
        "",
    ] {
        stays(text);
    }
}

#[test]
fn the_account_names_the_kinds() {
    let (_, redactions) =
        redact("AKIAIOSFODNN7EXAMPLE and AKIAIOSFODNN7EXAMPLF; DB_PASSWORD=abcd1234");
    assert_eq!(redactions.to_string(), "2 × API key, 1 × password");
    let mut sum = Redactions::default();
    sum.add(&redactions);
    sum.add(&redactions);
    assert_eq!(sum.count(), 6);
}

fn planted() -> impl Strategy<Value = (String, String)> {
    let random = |length: &str| format!("[A-Z][a-z][0-9][A-Za-z0-9]{length}");
    let with = |before: &'static str, secret: String, after: &'static str| {
        proptest::string::string_regex(&secret)
            .unwrap()
            .prop_map(move |secret| (format!("{before}{secret}{after}"), secret))
    };
    prop_oneof![
        with("", format!("sk-{}", random("{20,40}")), ""),
        with("", format!("sk_live_{}", random("{20,24}")), ""),
        with("", format!("ghp_{}", random("{33}")), ""),
        with("", "AKIA[A-Z0-9]{15}[0-9]".into(), ""),
        with("", format!("AIza{}", random("{32}")), ""),
        with("", "xoxb-[0-9]{11}-[0-9]{11}-[A-Za-z0-9]{24}".into(), ""),
        with("", format!("glpat-{}", random("{17}")), ""),
        with("", format!("hf_{}", random("{31}")), ""),
        with("Authorization: Bearer ", random("{20,60}"), ""),
        with("mysql://root:", random("{6,20}"), "@db.internal/tides"),
        with("DB_PASSWORD=", random("{4,20}"), ""),
        with("\"client_secret\": \"", random("{20,40}"), "\""),
        with("api_key: ", random("{24,40}"), ""),
        with(
            "-----BEGIN PRIVATE KEY-----\n",
            "[A-Za-z0-9+/]{64}".into(),
            "\n-----END PRIVATE KEY-----"
        ),
    ]
}

proptest! {
    #[test]
    fn no_planted_secret_survives(
        before in "([a-zé ,.\n]{0,40} )?",
        after in "( [a-zé ,.\n]{0,40})?",
        planted in proptest::collection::vec(planted(), 1..4),
    ) {
        let planted_texts: Vec<&str> = planted.iter().map(|(planted, _)| planted.as_str()).collect();
        let text = format!("{before}{}{after}", planted_texts.join(" \n"));
        let (redacted, redactions) = redact(&text);
        for (_, secret) in &planted {
            prop_assert!(!redacted.contains(secret.as_str()), "{} in {}", secret, redacted);
        }
        prop_assert!(redactions.count() as usize >= 1);
        prop_assert!(redacted.starts_with(&before) && redacted.ends_with(&after));
        let again = redact(&redacted);
        prop_assert_eq!(again.0.as_ref(), redacted.as_ref());
    }

    #[test]
    fn any_text_is_taken(text in any::<String>()) {
        let (once, _) = redact(&text);
        let again = redact(&once);
        prop_assert_eq!(again.0.as_ref(), once.as_ref());
    }

    #[test]
    fn commits_and_words_stay(hash in "[0-9a-f]{40}", words in "[a-z ]{0,60}") {
        let text = format!("{words} commit {hash} by {words}");
        let redacted = redact(&text);
        prop_assert_eq!(redacted.0.as_ref(), text.as_str());
    }
}
