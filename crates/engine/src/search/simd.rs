//! The inner loops of the vector scan, compiled for the processor's own instruction set.

// Plain loops, because a closure would be compiled for the baseline instruction set.

/// Collects the rows that share at least `min_agreement` bits with `query`.
#[inline(always)]
fn reaching_of(rows: &[u64], query: &[u64], min_agreement: u32, out: &mut Vec<u32>) {
    // The common lengths are constants, so that the compiler unrolls the inner loop.
    match query.len() {
        0 => {}
        4 => reaching_in::<4>(rows, query, min_agreement, out),
        6 => reaching_in::<6>(rows, query, min_agreement, out),
        words => {
            for (index, row) in rows.chunks_exact(words).enumerate() {
                if agreement(row, query) >= min_agreement {
                    out.push(index as u32);
                }
            }
        }
    }
}

#[inline(always)]
fn reaching_in<const WORDS: usize>(
    rows: &[u64],
    query: &[u64],
    min_agreement: u32,
    out: &mut Vec<u32>,
) {
    let (rows, _) = rows.as_chunks::<WORDS>();
    for (index, row) in rows.iter().enumerate() {
        if agreement(row, &query[..WORDS]) >= min_agreement {
            out.push(index as u32);
        }
    }
}

#[inline(always)]
fn agreement(row: &[u64], query: &[u64]) -> u32 {
    let (mut same, mut index) = (0, 0);
    while index < row.len() {
        same += (!(row[index] ^ query[index])).count_ones();
        index += 1;
    }
    same
}

/// Builds a histogram of the bits shared with `query`, over every `every`-th row.
#[inline(always)]
fn histogram_of(rows: &[u64], query: &[u64], every: usize, counts: &mut [usize]) {
    let words = query.len().max(1);
    for row in rows.chunks_exact(words).step_by(every) {
        counts[agreement(row, query) as usize] += 1;
    }
}

#[inline(always)]
fn product_of(a: &[u8], b: &[i8]) -> i32 {
    let (mut sum, mut index) = (0, 0);
    let length = a.len().min(b.len());
    let (a, b) = (&a[..length], &b[..length]);
    while index < length {
        sum += i32::from(a[index] as i8) * i32::from(b[index]);
        index += 1;
    }
    sum
}

#[cfg(target_arch = "x86_64")]
mod wide {
    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn reaching(rows: &[u64], query: &[u64], min_agreement: u32, out: &mut Vec<u32>) {
        super::reaching_of(rows, query, min_agreement, out);
    }

    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn histogram(rows: &[u64], query: &[u64], every: usize, counts: &mut [usize]) {
        super::histogram_of(rows, query, every, counts);
    }

    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn product(a: &[u8], b: &[i8]) -> i32 {
        super::product_of(a, b)
    }

    pub(super) fn is_supported() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt")
    }
}

/// Collects the rows that share at least `min_agreement` bits with `query`.
pub(super) fn reaching(rows: &[u64], query: &[u64], min_agreement: u32, out: &mut Vec<u32>) {
    #[cfg(target_arch = "x86_64")]
    if wide::is_supported() {
        // SAFETY: `is_supported` checked that the processor has the features of the function.
        #[expect(unsafe_code, reason = "calling a function with target features is unsafe")]
        return unsafe { wide::reaching(rows, query, min_agreement, out) };
    }
    reaching_of(rows, query, min_agreement, out);
}

/// Builds a histogram of the bits shared with `query`, over every `every`-th row.
pub(super) fn histogram(rows: &[u64], query: &[u64], every: usize, counts: &mut [usize]) {
    #[cfg(target_arch = "x86_64")]
    if wide::is_supported() {
        // SAFETY: `is_supported` checked that the processor has the features of the function.
        #[expect(unsafe_code, reason = "calling a function with target features is unsafe")]
        return unsafe { wide::histogram(rows, query, every, counts) };
    }
    histogram_of(rows, query, every, counts);
}

/// The dot product of two rows of bytes.
pub(super) fn product(a: &[u8], b: &[i8]) -> i32 {
    #[cfg(target_arch = "x86_64")]
    if wide::is_supported() {
        // SAFETY: `is_supported` checked that the processor has the features of the function.
        #[expect(unsafe_code, reason = "calling a function with target features is unsafe")]
        return unsafe { wide::product(a, b) };
    }
    product_of(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wide_loops_say_what_the_plain_ones_say() {
        for words in [1, 3, 4, 6, 12] {
            let rows: Vec<u64> =
                (1..=words as u64 * 9).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
            let query = &rows[words..2 * words];
            let all: Vec<u32> = rows.chunks_exact(words).map(|row| agreement(row, query)).collect();
            assert_eq!(all[1], words as u32 * 64);
            for min_agreement in [0, all[0], all[2], words as u32 * 64] {
                let (mut portable, mut wide) = (Vec::new(), Vec::new());
                reaching_of(&rows, query, min_agreement, &mut portable);
                reaching(&rows, query, min_agreement, &mut wide);
                let expected: Vec<u32> =
                    (0..9).filter(|index| all[*index as usize] >= min_agreement).collect();
                assert_eq!((&portable, &wide), (&expected, &expected));
            }
            let (mut portable, mut wide) = (vec![0; words * 64 + 1], vec![0; words * 64 + 1]);
            histogram_of(&rows, query, 2, &mut portable);
            histogram(&rows, query, 2, &mut wide);
            let expected =
                |same: usize| all.iter().step_by(2).filter(|all| **all as usize == same).count();
            assert_eq!(portable, (0..=words * 64).map(expected).collect::<Vec<usize>>());
            assert_eq!(portable, wide);
        }
        for length in [0, 1, 31, 256, 384] {
            let a: Vec<u8> = (0..length).map(|n| (n * 37 % 255 - 127) as i8 as u8).collect();
            let b: Vec<i8> = (0..length).map(|n| (n * 91 % 255 - 127) as i8).collect();
            assert_eq!(product(&a, &b), product_of(&a, &b));
        }
    }
}
